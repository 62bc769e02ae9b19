// Resolves host names and recognizes this machine's addresses. Names are resolved by c-ares, since a static binary
// cannot use getaddrinfo.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kResolveLimit = absl::Seconds(2);

// Returns IP addresses without brackets, in order of preference. An IP address resolves to itself. Blocks, at most
// for `limit`, and not for much longer once `cancelled` is true (null: it never is). NotFound: no such name.
// DeadlineExceeded: no name server answered.
absl::StatusOr<std::vector<std::string>> ResolveHost(const std::string& host, absl::Duration limit = kResolveLimit,
                                                     const std::atomic<bool>* cancelled = nullptr);

// The same, but this machine's own name, which only the system may know (nss-myhostname, mDNS), leads to loopback
// if no name server knows it.
absl::StatusOr<std::vector<std::string>> ResolveHostOrSelf(const std::string& host,
                                                           absl::Duration limit = kResolveLimit,
                                                           const std::atomic<bool>* cancelled = nullptr);

// The address of a name in /etc/hosts; empty: none, or several different ones. Asks no name server. An IP address
// resolves to itself.
std::string HostsFileAddress(const std::string& host);

// Addresses of this machine's interfaces by which other machines may reach it, without loopback and link-local
// ones.
std::vector<std::string> OwnAddresses();

bool IsLiteral(const std::string& host);

// Whether an IP address is this machine's: one of loopback, or of an interface.
bool IsOwnAddress(const std::string& literal);

// True if `host`, or an address it resolves to, is an address of this machine. Blocks as ResolveHostOrSelf() does.
absl::StatusOr<bool> IsLocalAddress(const std::string& host, absl::Duration limit = kResolveLimit);

}  // namespace muster::rendezvous
