"""Pure parsers: what a tool wrote in, values in base units out. No SSH, no clock, no environment."""
