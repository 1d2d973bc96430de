"""How an experiment is run: built, performed unit by unit, recorded, summed up."""
