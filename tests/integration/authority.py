"""Certificates for tests, made by the `openssl` command."""
import datetime
import shutil
import subprocess

CONFIG = """
[ca]
default_ca = d
[d]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = p
[p]
commonName = supplied
"""
DAY = 86400  # seconds
EXTENSIONS = "basicConstraints = critical,CA:FALSE\nextendedKeyUsage = serverAuth,clientAuth\nsubjectAltName = {names}\n"


def is_there():
    return shutil.which("openssl") is not None


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def _date(seconds):
    time = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return time.strftime("%Y%m%d%H%M%SZ")


class Authority:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.cert, self.key = folder / "ca.pem", folder / "ca.key"
        (folder / "index.txt").touch()
        (folder / "ca.cnf").write_text(CONFIG.format(folder=folder))
        request, extensions = folder / "request", folder / "extensions"
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={folder.name}",
                 "-keyout", self.key, "-out", request)
        extensions.write_text("basicConstraints = critical,CA:TRUE\n")
        _openssl("ca", "-batch", "-notext", "-config", folder / "ca.cnf", "-selfsign", "-keyfile", self.key,
                 "-in", request, "-extfile", extensions, "-startdate", _date(-30 * DAY), "-enddate", _date(30 * DAY),
                 "-out", self.cert)

    def issue(self, folder, names="DNS:muster", begins=-3600, ends=30 * DAY):
        """Writes cert.pem and key.pem into `folder`, the key first; times in seconds from now. Each is replaced in one
        step."""
        folder.mkdir(exist_ok=True)
        request, extensions = self.folder / "request", self.folder / "extensions"
        new_key, new_cert = folder / "key.new", folder / "cert.new"
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=node",
                 "-keyout", new_key, "-out", request)
        extensions.write_text(EXTENSIONS.format(names=names))
        _openssl("ca", "-batch", "-notext", "-config", self.folder / "ca.cnf", "-cert", self.cert, "-keyfile", self.key,
                 "-in", request, "-extfile", extensions, "-startdate", _date(begins), "-enddate", _date(ends),
                 "-out", new_cert)
        new_key.chmod(0o600)
        new_key.rename(folder / "key.pem")
        new_cert.rename(folder / "cert.pem")
        return self.options(folder)

    def options(self, folder):
        return ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"), "--tls-ca", str(self.cert)]
