__version__ = "0.1.0"

from fairw2_nb.metrics import fairness_report
from fairw2_nb.penalty import WassersteinPenalty, wasserstein_penalty
from fairw2_nb.transport import wasserstein_1d

__all__ = ["WassersteinPenalty", "wasserstein_penalty", "wasserstein_1d", "fairness_report"]
