"""wire.py vertex|sagemaker PROGRAM [ARGUMENTS]: runs a Python program of deploy/ unchanged, with the real SDK, and
prints as JSON what it sent to a server on loopback. Nothing of the SDK is replaced: its own settings give it another address.
Runs with the interpreter that has the SDK, in a network namespace without another network.
"""
import http.server
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading

# The SDK takes the address from a call of `init` only; the calls of `init` in the program add to it.
VERTEX = """
import runpy, sys
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
aiplatform.init(api_endpoint=sys.argv[1], api_transport="rest", credentials=AnonymousCredentials())
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/"


def reply_of_vertex(path, sent):
    """The created resource, pending. Only its name is read of it."""
    folder = path.split("?")[0].split("/v1/")[1]
    return {"name": folder if folder.endswith("/7") else f"{folder}/7", "displayName": "llm", "state": 2}


def reply_of_sagemaker(path, sent):
    name = sent.get("TrainingJobName", "")
    return {"TrainingJobArn": ARN + name, "TrainingJobName": name, "TrainingJobStatus": "InProgress",
            "SecondaryStatus": "Starting", "AlgorithmSpecification": {"TrainingInputMode": "File"},
            "ModelArtifacts": {"S3ModelArtifacts": "s3://none"}, "ResourceConfig": {"VolumeSizeInGB": 1},
            "StoppingCondition": {}, "CreationTime": 0}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        sent = json.loads(text) if text.startswith("{") else {}
        self.server.requests.append({"method": self.command, "path": self.path.split("?")[0],
                                     "target": self.headers.get("X-Amz-Target"), "body": sent or text})
        answer = json.dumps(self.server.reply(self.path, sent)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST

    def log_message(self, *_):
        pass


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=here",
                    "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", folder / "key", "-out", folder / "certificate"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate", folder / "key")
    return context


def main():
    platform, program, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if program == "-":
            program = folder / "program.py"
            program.write_text(arguments.pop(0))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.requests = []
        server.reply = reply_of_vertex if platform == "vertex" else reply_of_sagemaker
        address = f"127.0.0.1:{server.server_address[1]}"
        # No settings of the person who runs the tests: no account, no file of defaults.
        environment = {**os.environ, "HOME": name, "XDG_CONFIG_HOME": name}
        if platform == "vertex":
            server.socket = certificate(folder).wrap_socket(server.socket, server_side=True)
            command = [sys.executable, "-c", VERTEX, address, str(program), *arguments]
            environment["REQUESTS_CA_BUNDLE"] = str(folder / "certificate")
        else:
            command = [sys.executable, str(program), *arguments]
            environment.update({
                "AWS_ENDPOINT_URL": f"http://{address}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
                "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
                "SAGEMAKER_VALIDATE_ROLE": "false"})  # there is no such role to look at
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        json.dump({"code": done.returncode, "output": done.stdout, "requests": server.requests}, sys.stdout)


if __name__ == "__main__":
    main()
