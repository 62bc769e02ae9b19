#include "cli/env/env_probe.h"

#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "agent/platform/machine/machine_probe.h"
#include "agent/process/reach_check.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"
#include "base/io/temporary_folder.h"
#include "base/proc/port_holder.h"
#include "base/proc/run_program.h"
#include "base/wire/ids.h"
#include "muster/v1/rendezvous.grpc.pb.h"
#include "rendezvous/gate/gate.h"
#include "rendezvous/gate/tcp.h"
#include "rendezvous/transport/address.h"
#include "rendezvous/transport/channel_options.h"
#include "rendezvous/transport/credential_files.h"
#include "rendezvous/transport/listen_address.h"
#include "rendezvous/transport/process_start.h"
#include "rendezvous/transport/remote_session.h"
#include "rendezvous/transport/server.h"
#include "rendezvous/transport/serving.h"

namespace muster::cli {
namespace {

constexpr char kSharedMemory[] = "/dev/shm";

absl::Status ConnectionError(int error, const std::string& where) {
  const std::string text = absl::StrCat(where, ": ", std::strerror(error));
  return error == ECONNREFUSED ? absl::UnavailableError(absl::StrCat("nothing listens at ", where))
                               : absl::FailedPreconditionError(text);
}

absl::Status Connect(const std::string& address, uint16_t port) {
  const std::string where = absl::StrCat(address, ", port ", port);
  const std::optional<rendezvous::SocketAddress> target = rendezvous::ParseSocketAddress(address, port);
  if (!target) return absl::InvalidArgumentError(absl::StrCat(where, ": not an address"));
  const OwnedFd fd(socket(target->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return ConnectionError(errno, where);
  if (connect(fd.get(), target->get(), target->size) == 0) return absl::OkStatus();
  if (errno != EINPROGRESS) return ConnectionError(errno, where);
  pollfd wait = {fd.get(), POLLOUT, 0};
  const int ready = poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kConnectLimit)));
  if (ready < 0) return ConnectionError(errno, where);
  if (ready == 0) {
    return absl::DeadlineExceededError(
        absl::StrCat("no answer from ", where, " within ", absl::FormatDuration(kConnectLimit)));
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : ConnectionError(error, where);
}

using AgentStream = grpc::ClientReaderWriter<v1::AgentStatus, v1::Directive>;

// Why the coordinator would refuse this node; empty: it would admit it, or does not answer in time. A status
// without a host id is checked like any other, but makes nobody a node of the job. The coordinator closes its side
// when ours is closed, so a stream that ends without a directive means that nothing was wrong.
std::string AskForRefusal(const v1::NodeConfig& config, AgentStream* stream) {
  v1::AgentStatus status;
  status.set_run_id(config.run_id());
  status.set_protocol(kProtocol);
  status.set_hostname(config.hostname());
  if (!stream->Write(status) || !stream->WritesDone()) return "";
  std::string why;
  v1::Directive directive;
  while (stream->Read(&directive)) {
    if (directive.has_refused()) why = directive.refused().reason();
  }
  return why;
}

// Opens the stream of an agent, asks whether this node would be refused, and cancels it.
absl::StatusOr<absl::Duration> AskCoordinator(const v1::NodeConfig& config) {
  rendezvous::SanitizeGrpcEnvironment();
  ASSIGN_OR_RETURN(const auto credentials, rendezvous::CredentialsFrom(config));
  // Connects first, so that this does not count in the measured round-trip time.
  const absl::StatusOr<rendezvous::Dialled> dialled =
      rendezvous::DialWithin(rendezvous::DialPlanFrom(config, credentials), kConnectLimit);
  if (absl::IsUnauthenticated(dialled.status())) return absl::PermissionDeniedError(dialled.status().message());
  if (!dialled.ok())
    return absl::NotFoundError(absl::StrCat("it does not answer as muster: ", dialled.status().message()));
  grpc::ClientContext context;
  const gpr_timespec limit = gpr_time_from_millis(absl::ToInt64Milliseconds(kConnectLimit), GPR_TIMESPAN);
  context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), limit));
  const absl::Time asked = absl::Now();
  const auto stub = v1::Rendezvous::NewStub(dialled->channel);
  const auto stream = stub->Attend(&context);
  stream->WaitForInitialMetadata();
  const absl::Time answered = absl::Now();
  const auto& headers = context.GetServerInitialMetadata();
  const auto time = headers.find(rendezvous::kServerTimeKey);
  std::string text;
  if (time != headers.end()) text.assign(time->second.data(), time->second.size());
  const bool greeted = headers.count(rendezvous::kServerKey) > 0;
  const std::string refused = greeted ? AskForRefusal(config, stream.get()) : "";
  if (greeted) context.TryCancel();
  const grpc::Status end = stream->Finish();
  if (end.error_code() == grpc::StatusCode::UNAUTHENTICATED)
    return absl::PermissionDeniedError(end.error_message());
  const absl::Status cut = dialled->WhyEnded();
  if (absl::IsUnauthenticated(cut)) return absl::PermissionDeniedError(cut.message());
  if (!greeted) return absl::NotFoundError(absl::StrCat("it is not a coordinator: ", end.error_message()));
  if (!refused.empty()) return absl::FailedPreconditionError(refused);
  int64_t millis = 0;
  if (!absl::SimpleAtoi(text, &millis))
    return absl::UnimplementedError("the coordinator does not report its time");
  return asked + (answered - asked) / 2 - absl::FromUnixMillis(millis);
}

// Ignores agents that connect during the check of our own address.
class IgnoreStreams : public rendezvous::StreamEvents {
 public:
  void OnStatus(rendezvous::StreamId, const v1::AgentStatus&) override {}
  void OnClosed(rendezvous::StreamId) override {}
};

// Listens for a moment and connects to the address, as the primary itself does when it starts.
absl::Status LeadsHere(const std::string& address, const v1::NodeConfig& config) {
  rendezvous::SanitizeGrpcEnvironment();
  EventLoop loop;
  RETURN_IF_ERROR(loop.status());
  IgnoreStreams ignore;
  const std::string instance = absl::StrCat(rendezvous::Entropy());
  ASSIGN_OR_RETURN(const auto credentials, rendezvous::CredentialsFrom(config));
  ASSIGN_OR_RETURN(const std::unique_ptr<rendezvous::Server> server,
                   rendezvous::Server::Start(
                       rendezvous::ServerOptionsFrom(config, credentials, instance),
                       [&loop](std::function<void()> closure) { loop.Post(std::move(closure)); }, &ignore));
  rendezvous::DialPlan plan = rendezvous::DialPlanFrom(config, credentials);
  plan.coordinator.set_host(address);
  absl::Status result = absl::UnknownError("no answer");
  rendezvous::SessionEvents events;
  std::unique_ptr<rendezvous::RemoteSession> session;
  events.on_connected = [&](const std::string&) {
    const bool ourselves = session->server_instance() == instance;
    result = ourselves ? absl::OkStatus() : absl::FailedPreconditionError("another muster answers there");
    loop.Stop();
  };
  events.on_disconnected = [&](const std::string& why, int) {
    result = absl::UnavailableError(why);
    loop.Stop();
  };
  events.on_directive = [](const v1::Directive&) {};
  events.on_closed = [] {};
  session = std::make_unique<rendezvous::RemoteSession>(
      rendezvous::RemoteSessionOptions{.dial = plan, .host = {}, .connect_limit = agent::kReachLimit}, &loop,
      events);
  session->Connect();
  loop.Run();
  session.reset();  // before the server that it is connected to
  return result;
}

std::string PortHolder(uint16_t port) {
  const auto holder = FindPortHolder(port);
  return holder ? absl::StrCat("process ", holder->pid, " (", holder->name, ")") : "";
}

absl::StatusOr<int64_t> SharedMemoryBytes() {
  struct statvfs info {};
  if (statvfs(kSharedMemory, &info) != 0) return absl::NotFoundError("/dev/shm does not exist");
  return static_cast<int64_t>(info.f_blocks) * static_cast<int64_t>(info.f_frsize);
}

// The folder itself or the first above it that exists: the others would be made in it.
std::filesystem::path NearestThatExists(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::path nearest = std::filesystem::absolute(folder, ignored);
  while (!std::filesystem::exists(nearest, ignored) && nearest.has_relative_path())
    nearest = nearest.parent_path();
  return nearest;
}

// Leaves nothing behind.
absl::StatusOr<std::string> MakeTemporaryFile() {
  const std::string asked = TemporaryFolder();
  const std::filesystem::path nearest = NearestThatExists(asked);
  const absl::StatusOr<ScratchFolder> folder = ScratchFolder::Make();
  if (folder.ok()) folder->Remove();
  for (std::filesystem::path made = asked; made != nearest && made.has_relative_path(); made = made.parent_path())
    rmdir(made.c_str());  // refused if another process uses it by now
  if (!folder.ok()) return folder.status();
  if (absl::StartsWith(folder->path(), asked + "/")) return "";
  return absl::StrCat("in ", std::filesystem::path(folder->path()).parent_path().string(), ", not in ", asked,
                      " (TMPDIR)");
}

absl::Status CanBeWritten(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::path nearest = NearestThatExists(folder);
  if (!std::filesystem::is_directory(nearest, ignored)) {
    return absl::FailedPreconditionError(absl::StrCat(nearest.string(), " is no folder"));
  }
  return access(nearest.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus()
                                                   : absl::ErrnoToStatus(errno, nearest.string());
}

// Does not import it, which may take many seconds on a cold disk. A folder of that name that is no package has no
// origin.
absl::StatusOr<std::string> TorchVersion(const std::string& python) {
  constexpr char kPrintVersion[] =
      "print('\\nmuster asks')\n"  // after what sitecustomize may print
      "import importlib.metadata as m, importlib.util as u, sys\n"
      "sys.path = [folder for folder in sys.path if folder]\n"  // not the working folder, where -c looks
      "try: print(m.version('torch'))\n"
      "except m.PackageNotFoundError:\n"
      "  found = u.find_spec('torch')\n"
      "  print('of an unknown version') if found and found.origin else sys.exit(44)";
  constexpr int kNoPackage = 44;
  const auto result = RunProgram({python, "-c", kPrintVersion}, kPythonLimit);
  const bool is_no_program = absl::IsInternal(result.status()) || absl::IsNotFound(result.status());
  if (is_no_program) return absl::InvalidArgumentError(result.status().message());
  if (!result.ok()) return result.status();
  const std::vector<std::string> said = absl::StrSplit(result->output, absl::MaxSplits("\nmuster asks\n", 1));
  if (said.size() < 2) return absl::InvalidArgumentError("no Python");
  if (result->exit_code == kNoPackage) return absl::NotFoundError("torch");
  if (result->exit_code != 0) return absl::UnknownError("its version cannot be read");
  return said[1].substr(0, said[1].find('\n'));  // what follows is printed at its exit
}

}  // namespace

CheckProbe SystemCheckProbe() {
  CheckProbe probe;
  probe.resolve = [](const std::string& host) { return rendezvous::ResolveHost(host, kNameLimit); };
  probe.connect = Connect;
  probe.listen = [](const v1::NodeConfig& config) {
    return rendezvous::BindTo(rendezvous::ServerOptionsFrom(config, nullptr).listen).status();
  };
  probe.port_holder = PortHolder;
  probe.is_own_address = [](const std::string& address) {
    return rendezvous::IsLocalAddress(address, kNameLimit).value_or(false);
  };
  probe.leads_here = LeadsHere;
  probe.ask_coordinator = AskCoordinator;
  probe.shared_memory_bytes = SharedMemoryBytes;
  probe.make_temporary_file = MakeTemporaryFile;
  probe.can_be_written = CanBeWritten;
  probe.few_descriptors = [](const v1::NodeConfig& config) {
    rendezvous::RaiseDescriptorLimit();  // as the coordinator does
    return rendezvous::WarningOfFewDescriptors(config, rendezvous::DescriptorLimit());
  };
  probe.age_of_certificates = [](const v1::NodeConfig& config) {
    return rendezvous::WarningOnAge(config, absl::Now());
  };
  probe.torch_version = TorchVersion;
  probe.read_file = machine::ReadRegularFile;
  probe.look_at_file = machine::ProbeFile;
  return probe;
}

}  // namespace muster::cli
