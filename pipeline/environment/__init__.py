"""Text environments: ALFWorld's games, checked, translated once, and played fast with the stock environment's texts."""

from pipeline.environment.alfworld import AlfworldEnvironment
from pipeline.environment.interface import Rejection, TextEnvironment
from pipeline.environment.safety import check_game
from pipeline.environment.translation import Translation, translate

__all__ = ["AlfworldEnvironment", "Rejection", "TextEnvironment", "Translation", "check_game", "translate"]
