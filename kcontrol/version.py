"""The version of kcontrol, apart from its public names so that whoever tells it needs to import nothing
else."""

__version__ = "0.1.0"
