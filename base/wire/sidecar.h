// What a host in a container of its own and its sidecar agree on, beside the messages in muster/v1/host.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster {

// Version of AgentHello, HostHello, SidecarProof, HostStatus and HostDirective, raised when one side would misread
// the other.
inline constexpr uint32_t kSplitProtocol = 2;

// Bytes of a path that the kernel takes for a socket.
inline constexpr size_t kMaxSocketPath = 107;

// The file beside the host's socket that the host leaves for its sidecar when it ends: a JSON object.
inline std::string ResultPath(const std::string& socket_path) { return socket_path + ".result"; }
inline constexpr char kResultHostId[] = "host_id";
inline constexpr char kResultExitCode[] = "exit_code";
inline constexpr char kResultPod[] = "pod";  // PodHere() of the host

// Where the agents of a sidecar find its certificates: absolute paths.
inline constexpr char kTlsCertVariable[] = "MUSTER_TLS_CERT";
inline constexpr char kTlsKeyVariable[] = "MUSTER_TLS_KEY";
inline constexpr char kTlsCaVariable[] = "MUSTER_TLS_CA";
inline constexpr char kTlsNameVariable[] = "MUSTER_TLS_NAME";
// What they run and write for the job's events. The host's word does not count: the workers could have changed it.
inline constexpr char kEventsVariable[] = "MUSTER_EVENTS";
inline constexpr char kOnEventVariable[] = "MUSTER_ON_EVENT";
inline constexpr char kOnEventFilterVariable[] = "MUSTER_ON_EVENT_FILTER";

}  // namespace muster
