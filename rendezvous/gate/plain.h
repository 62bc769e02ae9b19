// The codecs of connections without a token: nothing is encrypted, but each side finds out at once whether the
// other one speaks the same protocol.
#pragma once

#include <memory>

#include "rendezvous/gate/codec.h"

namespace muster::rendezvous {

// Ready as soon as the client has sent HTTP/2's preface. It answers a client that begins a TLS handshake, as one
// with a token does, with an alert.
std::unique_ptr<Codec> PlainServer();

// Ready at once. Unauthenticated: the server wants a token.
std::unique_ptr<Codec> PlainClient();

// What a server sends before it closes a connection whose client has spoken the other protocol: a fatal TLS alert,
// which means "no token here" during a handshake, and "a token is needed" to a client without one.
inline constexpr std::string_view kAlert{"\x15\x03\x03\x00\x02\x02\x78", 7};  // no_application_protocol

// The same, if a certificate is needed (certificate_required).
inline constexpr std::string_view kCertificateAlert{"\x15\x03\x03\x00\x02\x02\x74", 7};

// Whether the bytes begin a TLS handshake.
bool IsClientHello(std::string_view bytes);

}  // namespace muster::rendezvous
