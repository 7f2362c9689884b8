"""Large computations spread over the workers of a Ray cluster: same bits, other processes.

Needs the extra ``cluster``. The parts of a computation know nothing of Ray, and nothing of the core imports this
package: a cold fit and a check hand their parts to whatever `problem.column_parts.spread_over` names, and
`verify.verify_state` to the workers that it is given. Start with `ray_workers.py`.
"""

from expunge.cluster.ray_workers import RayWorkers, ray_cluster, ray_workers

__all__ = ["RayWorkers", "ray_cluster", "ray_workers"]
