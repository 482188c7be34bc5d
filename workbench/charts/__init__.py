"""What charts show: trials and profiles turned into arrays, and those into figures; pure functions that draw nothing and import no plotter."""
