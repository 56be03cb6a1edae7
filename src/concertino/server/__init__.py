"""The web API of a `Runtime`: a Starlette application, and a server that drains before it ends."""

from ..extras import extra

with extra("server", "the web API"):
    from .application import create_app
    from .file_folder import FileFolder, UploadedFile
    from .login_routes import login_routes
    from .protection import Authenticate, is_loopback, single_user
    from .request_limits import ServerLimits
    from .serving import serve

__all__ = [
    "Authenticate",
    "FileFolder",
    "ServerLimits",
    "UploadedFile",
    "create_app",
    "is_loopback",
    "login_routes",
    "serve",
    "single_user",
]
