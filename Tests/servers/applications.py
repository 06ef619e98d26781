"""Python's servers, each of which serves a directory: applications.py NAME PORT DIRECTORY."""
import os
import sys


def wsgi(directory):
    """Werkzeug's function to serve a file, with ETag, Last-Modified and ranges."""
    from werkzeug.utils import send_from_directory

    def application(environ, start_response):
        response = send_from_directory(directory, environ["PATH_INFO"].lstrip("/"), environ, conditional=True)
        return response(environ, start_response)

    return application


def asgi(directory):
    from starlette.applications import Starlette
    from starlette.staticfiles import StaticFiles

    application = Starlette()
    application.mount("/", StaticFiles(directory=directory))
    return application


def standard(port, directory):
    import functools
    import http.server

    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=directory)
    http.server.ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()


def tornado(port, directory):
    import asyncio

    from tornado.web import Application, StaticFileHandler

    async def main():
        Application([(r"/(.*)", StaticFileHandler, {"path": directory})]).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(main())


def aiohttp(port, directory):
    from aiohttp import web

    application = web.Application()
    application.router.add_static("/", directory)
    web.run_app(application, host="127.0.0.1", port=port, print=None)


def werkzeug(port, directory):
    from werkzeug.serving import run_simple

    run_simple("127.0.0.1", port, wsgi(directory), threaded=True)


def cheroot(port, directory):
    from cheroot.wsgi import Server

    Server(("127.0.0.1", port), wsgi(directory)).start()


def waitress(port, directory):
    from waitress import serve

    serve(wsgi(directory), host="127.0.0.1", port=port)


def gunicorn(port, directory):
    os.environ["SERVED"] = directory
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    os.execvp("gunicorn", ["gunicorn", "-b", f"127.0.0.1:{port}", "-w", "2", "--threads", "4", "applications:served()"])


def served():
    return wsgi(os.environ["SERVED"])


def uvicorn(port, directory):
    import uvicorn as server

    server.run(asgi(directory), host="127.0.0.1", port=port, log_level="warning")


def hypercorn(port, directory):
    import asyncio

    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    asyncio.run(serve(asgi(directory), config))


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
