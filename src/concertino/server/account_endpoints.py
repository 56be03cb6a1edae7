"""Endpoints of what belongs to a user: usage, uploads, and the erasure of everything."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..errors import RunStateError
from .endpoint import ApiCall, Endpoints
from .file_folder import FileFolder, UploadedFile
from .forms import ErasureForm, FileForm, FileQuery, ListForm, SumForm, UsageQuery

account = Endpoints("account")


@account("GET", "/api/agents")
async def list_agents(call: ApiCall) -> ListForm[str]:
    """List the agents that a conversation may have; the first is the default."""
    return ListForm(items=list(call.state.agents))


@account("GET", "/api/usage")
async def sum_usage(call: ApiCall, query: UsageQuery) -> ListForm[SumForm]:
    """Sum up the user's tokens and cost by model, agent, day (UTC) or run."""
    sums = await call.runtime.store.usage_sums(call.scope, [query.by], since=query.since, until=query.until)
    names = ("attempts", "tokens", "cost", "unpriced", "estimated", "unknown")
    return ListForm(
        items=[
            SumForm.model_validate({name: getattr(each, name) for name in names} | {"by": each.by[0]}) for each in sums
        ]
    )


@account("DELETE", "/api/data")
async def erase_data(call: ApiCall) -> ErasureForm:
    """Stop the user's runs, and erase everything of the user. The ledger stays, without the user's id."""
    if not call.scope.user:
        raise HTTPException(403, "there is no user: data that belongs to none is erased by the operator")
    store = call.runtime.store
    for run in await store.runs(call.scope, state="running", roots=True, limit=1000):
        with suppress(RunStateError):  # it has just ended, or its process does not answer
            await call.runtime.stop(call.scope, run.start.run_id)
    erased = await store.erase(call.scope, force=True)
    files = 0 if call.state.files is None else await call.state.files.erase(call.scope)
    return ErasureForm(runs=erased.runs, memories=erased.memories, files=files)


def file_endpoints(types: Sequence[str]) -> Endpoints:
    """Return the endpoints of uploads of the media types *types*."""
    files = Endpoints("files")

    @files("GET", "/api/files")
    async def list_files(call: ApiCall) -> ListForm[FileForm]:
        """List the uploads, the newest first."""
        return ListForm(items=[FileForm.model_validate(each) for each in await _folder(call).files(call.scope)])

    @files("POST", "/api/files", status=201, content=types)
    async def upload_file(call: ApiCall, query: FileQuery) -> FileForm:
        """Store a file, which is the body of the request, for messages to come."""
        folder = _folder(call)
        media_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in folder.types:
            raise HTTPException(415, f"files of type {media_type!r:.80} are not taken: use {', '.join(folder.types)}")
        if len(await folder.files(call.scope)) >= folder.most_files:
            raise HTTPException(409, f"there are {folder.most_files} uploads: delete one first")
        content = await call.request.body()
        return FileForm.model_validate(await folder.save(call.scope, query.name, media_type, content))

    @files("GET", "/api/files/{file}", content=types)
    async def download_file(call: ApiCall, file: str) -> Response:
        """Return the content of an upload, as an attachment."""
        found = await _found(call, file)
        name = quote(found.name or found.id, safe="")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
        content = await _folder(call).content(call.scope, found)
        return Response(content, headers=headers | {"Content-Type": found.media_type})

    @files("DELETE", "/api/files/{file}")
    async def delete_file(call: ApiCall, file: str) -> None:
        """Remove an upload."""
        await _found(call, file)
        await _folder(call).delete(call.scope, file)

    return files


def _folder(call: ApiCall) -> FileFolder:
    assert call.state.files is not None
    return call.state.files


async def _found(call: ApiCall, file: str) -> UploadedFile:
    found = await _folder(call).find(call.scope, file)
    if found is None:
        raise HTTPException(404, f"there is no file {file!r}")
    return found
