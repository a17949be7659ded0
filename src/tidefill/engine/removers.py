"""Removes what jobs have made, by kind of resource: folders, slots, publications, consumer groups, indexes, views in
Spark's catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidefill.core.budget import Kept
from tidefill.engine.index_jobs import IndexJobs
from tidefill.engine.lakes import Lakes
from tidefill.errors import BadInput, NotOurs, Unavailable
from tidefill.extras import with_extra
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job
from tidefill.kafka.connections import Topics
from tidefill.postgres.connections import Databases
from tidefill.storage.local import is_folder_of_job, remove_made, remove_staged


@dataclass(frozen=True, slots=True)
class Removers:
    """The runner's port `Resources`. Spark is started only to remove a view from its catalog."""

    place: str
    databases: Databases
    topics: Topics
    lakes: Lakes
    indexes: IndexJobs

    def remove(self, job: Job, resource: Resource) -> None:
        """Remove it if it is there; see `ports.resources`."""
        remover = self._by_kind().get(resource.kind)
        if remover is None:
            raise NotOurs(f"{resource} is not removed", detail="No release of Tidefill up to this one makes its kind.")
        remover(job, resource)

    def _by_kind(self) -> dict[str, Callable[[Job, Resource], None]]:
        return {
            "path": lambda job, resource: remove_made(self.place, resource.name, job.id),
            "slot": lambda job, resource: self.databases.remove(resource, job.id),
            "publication": lambda job, resource: self.databases.remove(resource, job.id),
            "group": lambda job, resource: self.topics.remove(resource, job),
            "view": self._remove_view,
            "index": self.indexes.remove,
            "staged": lambda job, resource: remove_staged(self.place, resource.name, job.id),
        }

    def _remove_view(self, job: Job, resource: Resource) -> None:
        """A view of a generation is made only after the generation is published."""
        path = resource.name.removeprefix(f"{job.name}@")
        if path == resource.name or not is_folder_of_job(path, job.id):
            raise NotOurs(f"{resource} is not removed", detail=f"It is no view of {job.name} that the job made.")
        if job.published is None or int(path.rpartition("-")[2]) > job.published or not self.lakes.may_have_views():
            return
        try:
            with with_extra("spark"):
                from tidefill.delta.catalog import unpublish
                from tidefill.spark.names import NAME_IN_CATALOG
            if NAME_IN_CATALOG.fullmatch(job.name):
                unpublish(self.lakes.lake().spark, job.name, path)
        except BadInput as error:  # Spark does not start as it is set up: the view is residue, and DROP goes on
            raise Unavailable(f"the view {job.name} cannot be removed", detail=str(error)) from error

    def kept(self, resource: Resource) -> Kept | None:
        """How much of an upstream's log it keeps, now; None if it is no part of a log, or is not there."""
        return self.databases.kept(resource)
