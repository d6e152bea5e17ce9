"""A wiki: Debian's DokuWiki with php-fpm and nginx. Pages, their history, caches, sessions and settings are files.

The program itself stays where the package put it: on a cluster it would come with an image.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from applications import web
from storage.daemons import Daemons

PAGES = 200
PAGE_WORDS = 600
PROGRAM = Path("/usr/share/dokuwiki")
SETTINGS = Path("/etc/dokuwiki")
NEEDS = {"nginx": "nginx-light", "php-fpm8.2": "php-fpm", str(PROGRAM): "dokuwiki"}
FOLDERS = (
    "attic",
    "cache",
    "index",
    "locks",
    "log",
    "media",
    "media_attic",
    "media_meta",
    "meta",
    "pages",
    "tmp",
)
WORKERS = 8
START_S = 30.0
FPM = """\
[global]
daemonize = no
error_log = /dev/stderr
[wiki]
user = root
group = root
listen = {work}/php.sock
pm = static
pm.max_children = {workers}
php_admin_value[auto_prepend_file] = {files}/prepend.php
php_admin_value[session.save_path] = {files}/sessions
php_admin_value[upload_tmp_dir] = {files}/uploads
"""
SITE = """\
root {program};
    index doku.php;
    location ~ ^/(data|conf|bin|inc|vendor)/ {{ deny all; }}
    location ~ \\.php$ {{
      include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
      fastcgi_pass unix:{work}/php.sock;
    }}
"""
LOCAL = """\
<?php
$conf['title'] = 'Tank';
$conf['savedir'] = '{files}/data';
$conf['useacl'] = 0;
$conf['updatecheck'] = 0;
$conf['baseurl'] = 'http://127.0.0.1:' . $_SERVER['SERVER_PORT'];
"""


def prepare(files: Path) -> None:
    """Lay out the settings and the pages of a new wiki."""
    for name in FOLDERS:
        (files / "data" / name).mkdir(parents=True)
    (files / "sessions").mkdir()
    shutil.copytree(SETTINGS, files / "conf")
    (files / "conf" / "local.php").write_text(LOCAL.format(files=files), "utf-8")
    (files / "prepend.php").write_text(
        f"<?php\nif (!defined('DOKU_CONF')) define('DOKU_CONF', '{files}/conf/');\n"
        f"if (!defined('DOKU_MAIN_CONF')) define('DOKU_MAIN_CONF', '{files}/conf/');\n",
        "utf-8",
    )
    pages = files / "data" / "pages" / "page"
    pages.mkdir()
    for number in range(PAGES):
        (pages / f"{number}.txt").write_text(page(number), "utf-8")


def page(number: int) -> str:
    """A page with headings, links to others and some words: always the same."""
    words = [f"word{(number * 31 + i * 17) % 997}" for i in range(PAGE_WORDS)]
    parts = [f"====== Page {number} ======"]
    for start in range(0, PAGE_WORDS, 100):
        parts.append(f"===== Part {start // 100} =====")
        parts.append(" ".join(words[start : start + 100]))
        parts.append(f"See [[page:{(number + start + 1) % PAGES}]].")
    return "\n\n".join(parts) + "\n"


def start(daemons: Daemons, work: Path, files: Path, port: int) -> None:
    """Start php-fpm, then nginx."""
    config = work / "php-fpm.conf"
    config.write_text(FPM.format(work=work, files=files, workers=WORKERS), "utf-8")
    daemons.start("php-fpm", "php-fpm8.2", "-F", "-R", "-y", config)
    daemons.wait_for("php-fpm's socket", (work / "php.sock").exists, START_S)
    daemons.start("nginx", *web.command(work, files, port, SITE.format(program=PROGRAM, work=work)))
