"""What holds for every test."""

from hypothesis import settings

settings.register_profile("discreet", deadline=None)  # how long an example takes depends on what else the machine does
settings.load_profile("discreet")
