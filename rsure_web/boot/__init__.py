"""Set-up and services of `./rsure`: standard library only, it runs before the venv exists."""
