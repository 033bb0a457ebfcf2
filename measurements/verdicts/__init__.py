"""Are the verdicts right? False alarms and changes found, from recorded launches and on a GPU.

`figures_of_verdicts` has the figures; `recorded_launches` judges runs that `draws` takes from `recorded` data, also by the
rules of other tools (`rivals`); `noise` simulates worse; `tables` shows it; `on_gpu` records anew; `speed` times judging.
"""
