"""The web page. Nothing is here yet."""
