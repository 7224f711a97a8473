"""Recipes that made the shipped weights; ``./rsure models train`` runs them. Nothing here runs when a question is answered."""
