"""One HTML page that holds all it needs: `page` fills the template, `table` makes its table. Nothing is fetched."""
