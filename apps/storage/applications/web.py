"""nginx, as the applications use it: one worker, everything it writes below folders that are given."""

from __future__ import annotations

from pathlib import Path

CONFIG = """\
daemon off;
user root;
worker_processes 1;
pid {work}/nginx.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
  include /etc/nginx/mime.types;
  access_log off;
  sendfile on;
  client_max_body_size 1g;
  client_body_temp_path {files}/uploads;
  proxy_temp_path {work}/proxy;
  fastcgi_temp_path {work}/fastcgi;
  uwsgi_temp_path {work}/uwsgi;
  scgi_temp_path {work}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    {site}
  }}
}}
"""


def command(work: Path, files: Path, port: int, site: str) -> list[str]:
    """Write the configuration; return the command that serves it in the foreground.

    Parameters
    ----------
    work : Path
        Folder of the machine's disk for sockets and configuration.
    files : Path
        Folder of the application's files; uploads are gathered there, too.
    port : int
        Where it listens, on 127.0.0.1.
    site : str
        What stands in the block `server`.
    """
    (files / "uploads").mkdir(exist_ok=True)
    config = work / "nginx.conf"
    config.write_text(CONFIG.format(work=work, files=files, port=port, site=site), "utf-8")
    return ["nginx", "-e", "stderr", "-c", str(config)]
