"""`./rsure up`: placeholder until the processes below are written."""


def up(arguments: list[str]) -> int:
    """Serves."""
    raise NotImplementedError
