"""Urbex: a vision-language model that searches a city for the thing you describe."""

__version__ = "0.1.0"
