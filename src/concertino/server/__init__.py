"""The web API of a `Runtime`: a Starlette application, and a server that drains before it ends."""

from ..extras import extra

with extra("server", "the web API"):
    from .application import create_app
    from .serving import serve
from .file_folder import FileFolder, UploadedFile
from .protection import Authenticate
from .request_limits import ServerLimits

__all__ = ["Authenticate", "FileFolder", "ServerLimits", "UploadedFile", "create_app", "serve"]
