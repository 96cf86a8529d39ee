"""Wasserstein fairness penalties for neural networks; names are imported when first used."""
__version__ = "0.1.0"

from importlib import import_module

PLACES = { # everyday name: module that has it
    "WassersteinPenalty": "penalty.loss",
    "wasserstein_penalty": "penalty.loss",
    "wasserstein_1d": "transport.exact",
    "Objective": "training.objective",
    "fit": "training.loop",
    "TargetTuner": "training.lambdas",
    "FairDataset": "data.dataset",
    "load_table": "data.tables",
    "load_adult": "data.adult",
    "load_census": "data.census",
    "load_communities": "data.census",
    "synthetic_logistic": "data.synthetic",
    "fairness_report": "metrics.report",
    "disparate_impact": "metrics.disparities",
    "threshold_for_rate": "metrics.report",
    "certify": "metrics.certificate",
    "plot_cdfs": "metrics.plots",
    "FairLogisticRegression": "models.logistic",
    "FairMLPClassifier": "models.mlp",
}
__all__ = list(PLACES)


def __getattr__(name):
    "Import an everyday name from its module."
    if name not in PLACES:
        raise AttributeError(f"module 'fairw2_nb' has no attribute {name!r}")
    return getattr(import_module(f"fairw2_nb.{PLACES[name]}"), name)


def __dir__():
    return sorted([*globals(), *PLACES])
