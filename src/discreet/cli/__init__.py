__all__ = ["main"]


def main() -> None:
    """Run the command."""
