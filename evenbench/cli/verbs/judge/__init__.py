"""The verbs that judge stored results.

`report` shows results files in any format, or explains one case; `watch` is `report --watch`, again and again while a run
is under way; `diff` compares two stored runs; `expect` proposes the figures of expectations.yaml.
"""
