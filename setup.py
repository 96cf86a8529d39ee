"""Reads settings.ini, the one place where names, versions and requirements stand."""
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
parser = ConfigParser(delimiters=["="], interpolation=None)
parser.read(here / "settings.ini", encoding="utf-8")
cfg = parser["DEFAULT"]
readme = here / "README.md"
peers = cfg["peers_requirements"].split()  # the notebooks compare with them

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=readme.read_text(encoding="utf-8") if readme.exists() else "",
    long_description_content_type="text/markdown",
    author=cfg["author"],
    author_email=cfg["author_email"],
    url=cfg["git_url"],
    keywords=cfg["keywords"],
    license="Apache-2.0",
    packages=find_packages(include=["fairw2_nb", "fairw2_nb.*"]),
    include_package_data=True,
    package_data={"fairw2_nb": ["data/files/*", "experiments/rows/*.jsonl"]},
    python_requires=f">={cfg['min_python']}",
    install_requires=cfg["requirements"].split(),
    extras_require={
        "peers": peers,
        "cluster": cfg["cluster_requirements"].split(),
        "dev": [*cfg["dev_requirements"].split(), *peers],
    },
    entry_points={
        "console_scripts": cfg["console_scripts"].split(),
        "nbdev": [f"{cfg['lib_name']}={cfg['lib_name']}._modidx:d"],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
