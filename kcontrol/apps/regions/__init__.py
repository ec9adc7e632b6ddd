"""Regions as processes have them: who carries their drains out, who asks for them, who reads their cuts."""
