def is_leap(year):
    """Whether a year of the Gregorian calendar has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 and year % 400 == 0)
