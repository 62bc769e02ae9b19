// How a host and its sidecar show each other that they have the job's token, without showing the token: each end
// signs what both have said, under the token (HMAC with SHA-256, RFC 2104), the host first. Who listens, or asks
// without the token, learns nothing but a hash of it. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// hello: the bytes of the sidecar's first message, which contain its nonce. host_nonce: the host's answer to it.
std::string ProofOfHost(std::string_view token, std::string_view hello, std::string_view host_nonce);
std::string ProofOfSidecar(std::string_view token, std::string_view hello, std::string_view host_nonce);

// Takes the same time wherever they differ.
bool SameProof(std::string_view a, std::string_view b);

std::string NewNonce();  // 32 bytes of the kernel's

}  // namespace muster
