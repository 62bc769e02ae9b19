"""Metadata servers on loopback that follow the clouds' documentation, and misbehave on request.

GCE: cloud.google.com/compute/docs/metadata/querying-metadata (wait_for_change, last_etag, timeout_sec, Metadata-Flavor),
.../docs/instances/spot, .../docs/metadata/getting-live-migration-notice. EC2: UserGuide/instancedata-data-retrieval
(IMDSv2), spot-instance-termination-notices, rebalance-recommendations.
"""
import http.server
import threading
import urllib.parse

MAX_WAIT_S = 120.0  # for one answer; only a hang reaches it


class MetadataServer:
    """A server on a loopback port. `misbehave`: takes each request first, and answers it if it returns true."""

    def __init__(self, port=0):
        self.changed = threading.Condition()
        self.requests = []  # (method, path with query, headers), as they came
        self.misbehave = lambda handler: False
        self.over = False
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.take()

            def do_PUT(self):
                self.take()

            def take(self):
                with owner.changed:
                    owner.requests.append((self.command, self.path, dict(self.headers)))
                    owner.changed.notify_all()
                self.close_connection = True
                try:
                    if not owner.misbehave(self):
                        owner.answer(self, *urllib.parse.urlsplit(self.path)[2:4])
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the client did not wait

            def reply(self, status, body="", **headers):
                data = body if isinstance(body, bytes) else body.encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def hang(self):
        """Waits until the test is over."""
        with self.changed:
            self.changed.wait_for(lambda: self.over, MAX_WAIT_S)

    def asked(self, part):
        with self.changed:
            return [request for request in self.requests if part in request[1]]

    def close(self):
        with self.changed:
            self.over = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Gce(MetadataServer):
    ROOT = "/computeMetadata/v1/instance/"

    def __init__(self, port=0):
        self.values = {"preempted": "FALSE", "maintenance-event": "NONE"}
        self.tags = {key: 1 for key in self.values}
        super().__init__(port)

    @property
    def environment(self):
        return {"GCE_METADATA_HOST": f"127.0.0.1:{self.port}"}

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.tags[key] += 1
            self.changed.notify_all()

    def answer(self, handler, path, query):
        if handler.headers.get("Metadata-Flavor") != "Google":
            return handler.reply(403, "Missing Metadata-Flavor:Google header.")
        key = path.removeprefix(self.ROOT)
        if not path.startswith(self.ROOT) or key not in self.values:
            return handler.reply(404, "not found", Metadata_Flavor="Google")
        wanted = dict(urllib.parse.parse_qsl(query))
        with self.changed:
            before = wanted.get("last_etag", str(self.tags[key]))
            if wanted.get("wait_for_change") == "true":
                self.changed.wait_for(lambda: self.over or str(self.tags[key]) != before,
                                      min(float(wanted.get("timeout_sec", MAX_WAIT_S)), MAX_WAIT_S))
            value, tag = self.values[key], self.tags[key]
        handler.reply(200, value, Metadata_Flavor="Google", ETag=str(tag), Content_Type="application/text")


class Aws(MetadataServer):
    def __init__(self, port=0):
        self.action = None     # JSON text, once there is one
        self.rebalance = None
        self.tokens = []       # the valid ones
        super().__init__(port)

    @property
    def environment(self):
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{self.port}/"}

    def expire_tokens(self):
        self.tokens.clear()

    def answer(self, handler, path, _query):
        if handler.command == "PUT" and path == "/latest/api/token":
            life = handler.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
            if not life.isdigit() or not 1 <= int(life) <= 21600:
                return handler.reply(400)
            self.tokens.append(f"AQAEA-token_{len(self.requests)}==")
            return handler.reply(200, self.tokens[-1], X_aws_ec2_metadata_token_ttl_seconds=life)
        if handler.headers.get("X-aws-ec2-metadata-token") not in self.tokens:
            return handler.reply(401)
        found = {"/latest/meta-data/spot/instance-action": self.action,
                 "/latest/meta-data/events/recommendations/rebalance": self.rebalance}.get(path)
        return handler.reply(404) if found is None else handler.reply(200, found, Content_Type="text/plain")
