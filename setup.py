"""Installs the top-level folder `schemas/` as data of `kcontrol.schemas`; everything else is in
pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["kcontrol", "kcontrol.*"]), "kcontrol.schemas"],
    package_dir={"kcontrol.schemas": "schemas"},
)
