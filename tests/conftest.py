"""What holds for every test."""

from hypothesis import settings

collect_ignore = ["conftest.py", "browser/conftest.py", "fuzz/conftest.py"]  # as modules that may hold doctests

settings.register_profile("discreet", deadline=None)  # how long an example takes depends on what else the machine does
settings.load_profile("discreet")
