#include "agent/host/preload/preloader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/host/core/report.h"
#include "agent/host/preload/bootstrap.h"
#include "agent/host/preload/messages.h"
#include "agent/host/process/exec_stage.h"
#include "base/core/status_macros.h"
#include "base/io/memory_file.h"
#include "base/io/own_namespace.h"
#include "base/io/pipe.h"
#include "base/text/text.h"

namespace muster::host {
namespace {

// As in python/muster_preload/start.py.
constexpr char kArchivePath[] = "/proc/self/fd/4";
constexpr char kProbeArgument[] = "muster-probe";

// Runs if the bootstrap did not: it would have ended the process. Without this test a Python that passes over the
// bootstrap would run the script, as a worker without a rank. For every version of Python.
constexpr char kProbe[] =
    "import os, sys; os.write(5, ('%s\\0Python %s' % ('unsupported' if sys.version_info < (3, 9) else "
    "'unreached', "
    "sys.version.split()[0])).encode())";

EnvironmentMap WithArchive(EnvironmentMap environment) {
  std::string& path = environment["PYTHONPATH"];
  path = path.empty() ? kArchivePath : absl::StrCat(kArchivePath, ":", path);
  return environment;
}

// Above the descriptors that the new process gets.
absl::StatusOr<OwnedFd> Above(const OwnedFd& fd) {
  OwnedFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, kLowestMoreFd));
  if (!copy.valid()) return absl::ErrnoToStatus(errno, "copying a descriptor");
  return copy;
}

struct FdPair {
  OwnedFd first, second;
};

absl::StatusOr<FdPair> MakeSocketPair(int type) {
  int fds[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ErrnoToStatus(errno, "making a pair of sockets");
  }
  return FdPair{OwnedFd(fds[0]), OwnedFd(fds[1])};
}

std::string Text(const std::vector<std::string>& fields, size_t index) {
  return index < fields.size() ? OneLine(Printable(fields[index])) : "";
}

std::vector<std::string> Entries(const EnvironmentMap& environment) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment) entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

// As Spec in python/muster_preload/fork.py reads it.
std::string SpecOf(const WorkerCommand& command, const std::string& learn_file) {
  std::vector<std::string> texts = {std::to_string(getpid()), absl::StrJoin(command.cpus, ","), learn_file,
                                    std::to_string(command.argv.size())};
  texts.insert(texts.end(), command.argv.begin(), command.argv.end());
  return JoinTexts(texts) + JoinTexts(Entries(command.environment));
}

}  // namespace

struct Preloader::Run {
  pid_t pid = 0;
  OwnedFd socket;
  bool probes = false;
  bool has_told = false;  // its end is expected
};

Preloader::Preloader(EventLoop* loop, Spawner* spawner, Writer* writer, News news)
    : loop_(loop), spawner_(spawner), writer_(writer), news_(std::move(news)) {}

Preloader::~Preloader() { Stop(); }

void Preloader::Start(const PreloadCommand& command, const StartPreloader& what) {
  Stop();
  command_ = command;
  what_ = what;
  const absl::Status launched = Launch(!probed_);
  if (!launched.ok()) Tell({.kind = PreloadNews::kEnded, .why = std::string(AsStd(launched.message()))});
}

absl::Status Preloader::Launch(bool probes) {
  ASSIGN_OR_RETURN(const OwnedFd archive, BootstrapArchive());
  ASSIGN_OR_RETURN(const OwnedFd archive_above, Above(archive));
  ASSIGN_OR_RETURN(FdPair sockets, MakeSocketPair(SOCK_SEQPACKET));
  ASSIGN_OR_RETURN(const OwnedFd socket_above, Above(sockets.second));
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  const OwnedFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "opening /dev/null");

  WorkerCommand start;
  start.file = command_.file;
  start.argv =
      probes ? std::vector<std::string>{command_.argv[0], "-u", "-c", kProbe, kProbeArgument} : command_.argv;
  start.environment = WithArchive(command_.environment);
  start.helper = true;
  start.stdin_fd = null.get();
  start.stdout_fd = start.stderr_fd = output.in.get();
  start.more_fds = {archive_above.get(), socket_above.get()};
  if (!probes) {
    const std::vector<std::string> names(command_.per_worker.begin(), command_.per_worker.end());
    ASSIGN_OR_RETURN(const OwnedFd modules, MemoryFile("muster-modules", JoinTexts(what_.modules)));
    ASSIGN_OR_RETURN(const OwnedFd variables, MemoryFile("muster-variables", JoinTexts(names)));
    ASSIGN_OR_RETURN(const OwnedFd environment,
                     MemoryFile("muster-environment", JoinTexts(Entries(command_.environment))));
    RETURN_IF_ERROR(SendMessage(sockets.first.get(), {"modules", what_.learned ? "learned" : "given"},
                                {modules.get(), variables.get(), environment.get()}));
  }
  auto run = std::make_shared<Run>();
  const auto exited = [this, weak = std::weak_ptr<Run>(run)](const Ending& ending) {
    if (weak.lock() == run_ && run_ != nullptr) OnExited(ending);
  };
  Spawner::WorkerEvents events;
  events.failed = [exited](int exit_code, const std::string& why) {
    exited(Ending{.number = exit_code, .error_text = why});
  };
  events.exited = exited;
  ASSIGN_OR_RETURN(run->pid, spawner_->SpawnWorker(start, std::move(events)));
  run->socket = std::move(sockets.first);
  run->probes = probes;
  run_ = std::move(run);
  writer_->AdoptBoundedPipe(kMaxPreloadOutput, output.out.Release(), STDERR_FILENO, "preload: ", nullptr);
  loop_->Watch(run_->socket.get(), EPOLLIN, [this](uint32_t) { OnReadable(); });
  return absl::OkStatus();
}

void Preloader::Stop() {
  ++generation_;
  if (run_ == nullptr) return;
  loop_->Unwatch(run_->socket.get());
  spawner_->KillGroup(run_->pid);
  run_.reset();
}

// Posted, so that the core is not entered from inside one of its own effects.
void Preloader::Tell(PreloadNews news) {
  loop_->Post([this, generation = generation_, news = std::move(news)] {
    if (generation == generation_) news_(news);
  });
}

void Preloader::OnReadable() {
  const auto message = ReceiveMessage(run_->socket.get(), EventLoop::Now());
  if (message.ok()) return OnMessage(*message);
  if (!absl::IsDeadlineExceeded(message.status())) loop_->Unwatch(run_->socket.get());  // its exit will tell more
}

void Preloader::OnMessage(const std::vector<std::string>& fields) {
  const std::string& kind = fields[0];
  if (kind == "probe" && Text(fields, 1) == OwnNamespace("pid")) {
    probed_ = true;
    return;
  }
  PreloadNews news;
  if (kind == "ready") {
    double seconds = 0;
    (void)absl::SimpleAtod(Text(fields, 1), &seconds);
    news.took = absl::Seconds(seconds);
    return Tell(news);
  }
  run_->has_told = true;
  if (kind == "probe") {
    news = {.kind = PreloadNews::kUnusable,
            .why = absl::StrCat(command_.file,
                                " runs Python in a PID namespace of its own, so its pids say nothing here")};
  } else if (kind == "unsafe") {
    news = {.kind = PreloadNews::kUnsafe, .why = Text(fields, 2), .module = Text(fields, 1)};
  } else if (kind == "unsupported") {
    news = {.kind = PreloadNews::kUnusable,
            .why = absl::StrCat("it needs CPython 3.9 or later, and ", command_.file, " is ", Text(fields, 1))};
  } else if (kind == "unreached") {
    news = {.kind = PreloadNews::kUnusable,
            .why = absl::StrCat(command_.file, " (", Text(fields, 1),
                                ") does not import sitecustomize from its PYTHONPATH")};
  } else {
    news = {.kind = PreloadNews::kUnusable,
            .why = absl::StrCat("the preloading Python failed: ", Text(fields, 1))};
  }
  Tell(news);
}

void Preloader::OnExited(const Ending& ending) {
  while (true) {  // what it said right before
    const auto message = ReceiveMessage(run_->socket.get(), EventLoop::Now());
    if (!message.ok()) break;
    OnMessage(*message);
  }
  loop_->Unwatch(run_->socket.get());
  const std::shared_ptr<Run> ended = std::exchange(run_, nullptr);
  if (ended->has_told) return;
  if (ended->probes && probed_) {
    const absl::Status launched = Launch(false);
    if (!launched.ok()) Tell({.kind = PreloadNews::kEnded, .why = std::string(AsStd(launched.message()))});
    return;
  }
  Tell({.kind = PreloadNews::kEnded,
        .why = ending.error_text.empty() ? DescribeEnding(ending) : OneLine(ending.error_text)});
}

// ---- forking ------------------------------------------------------------------------------------------------

absl::Status Preloader::Request(const std::vector<Worker>& workers, int gate, std::vector<OwnedFd>* status_fds) {
  const int socket = run_->socket.get();
  RETURN_IF_ERROR(SendMessage(socket, {"fork", std::to_string(workers.size())}, {gate}));
  for (const Worker& worker : workers) {
    const WorkerCommand& command = worker.command;
    ASSIGN_OR_RETURN(FdPair status, MakeSocketPair(SOCK_STREAM));
    if (fcntl(status.first.get(), F_SETFL, O_NONBLOCK) != 0) return absl::ErrnoToStatus(errno, "a status socket");
    ASSIGN_OR_RETURN(const OwnedFd spec, MemoryFile("muster-worker", SpecOf(command, worker.learn_file)));
    RETURN_IF_ERROR(SendMessage(socket, {"worker"},
                                {spec.get(), command.stdin_fd, command.stdout_fd, command.stderr_fd,
                                 status.second.get(), worker.stacks_fd}));
    status_fds->push_back(std::move(status.first));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<pid_t>> Preloader::Fork(const std::vector<Worker>& workers, absl::Duration limit,
                                                   PreloadNews* news) {
  *news = {.kind = PreloadNews::kFailed};
  const auto refuse = [news](const absl::Status& status) {
    news->why = std::string(AsStd(status.message()));
    return status;
  };
  if (run_ == nullptr) return refuse(absl::UnavailableError("the preloading Python has ended"));
  auto gate = MakePipe();
  if (!gate.ok()) return refuse(gate.status());
  std::vector<OwnedFd> status_fds;
  const absl::Status asked = Request(workers, gate->out.get(), &status_fds);
  if (!asked.ok()) return refuse(asked);
  const auto answer = ReceiveMessage(run_->socket.get(), EventLoop::Now() + limit);
  if (!answer.ok()) return refuse(answer.status());
  if ((*answer)[0] != "forked" || answer->size() != workers.size() + 1) {
    if ((*answer)[0] == "stale") news->kind = PreloadNews::kStale;
    if ((*answer)[0] == "refused") news->kind = PreloadNews::kRefused;
    return refuse(absl::FailedPreconditionError(Text(*answer, 1)));
  }
  std::vector<pid_t> pids;
  for (size_t i = 0; i < workers.size(); ++i) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi((*answer)[i + 1], &pid) || pid <= 0) {
      return refuse(absl::InternalError("the preloading Python answered without a pid"));
    }
    // Only with this word it goes on: one that merely has become a child of this process, because those between
    // them have died, ends. A worker that could not be watched has been killed: the exit that its round waits for
    // is reported here.
    const int status_fd = status_fds[i].Release();
    Spawner::WorkerEvents events = workers[i].events;
    events.failed = [this, failed = events.failed](int exit_code, const std::string& why) {
      Tell({.kind = PreloadNews::kUnusable, .why = why});  // the next ones would fail in the same way
      failed(exit_code, why);
    };
    const absl::Status adopted = spawner_->AdoptWorker(pid, status_fd, command_.file, events);
    if (adopted.ok()) {
      LetRun(status_fd, workers[i].delay);
    } else {
      loop_->Post([failed = workers[i].events.failed, why = std::string(AsStd(adopted.message()))] {
        failed(SpawnExitCode(EAGAIN), why);
      });
    }
    pids.push_back(pid);
  }
  // The gate's reader, the middle process, now exits and leaves the workers to this process.
  while (write(gate->in.get(), "g", 1) < 0 && errno == EINTR) continue;
  *news = {.kind = PreloadNews::kForked};
  return pids;
}

void Preloader::LetRun(int status_fd, absl::Duration delay) {
  const auto say = [](int fd) { (void)!send(fd, "g", 1, MSG_NOSIGNAL | MSG_DONTWAIT); };
  // The spawner closes its descriptor when the worker has ended. Without a further one it runs at once.
  const auto ours = std::make_shared<OwnedFd>(
      delay > absl::ZeroDuration() ? fcntl(status_fd, F_DUPFD_CLOEXEC, kLowestMoreFd) : -1);
  if (!ours->valid()) return say(status_fd);
  loop_->After(delay, [ours, say] { say(ours->get()); });
}

}  // namespace muster::host
