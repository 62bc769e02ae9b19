// The order of epochs, rounds and documents, and their text form for people.
#pragma once

#include <cstdint>
#include <string>

#include "muster/v1/rendezvous.pb.h"

namespace muster {

// Version of the protocol between agents and coordinators, raised when an old program would misread a new one
// (rendezvous.proto has the rules). Independent of the program's version.
inline constexpr uint32_t kProtocol = 5;

// Three-way comparison: negative, 0 or positive. A missing message is smaller than any that is set.
int Compare(const v1::Epoch& a, const v1::Epoch& b);
int Compare(const v1::DirectiveId& a, const v1::DirectiveId& b);
int Compare(const v1::StatusId& a, const v1::StatusId& b);
int Compare(const v1::RoundId& a, const v1::RoundId& b);

inline bool Same(const v1::Epoch& a, const v1::Epoch& b) { return Compare(a, b) == 0; }
inline bool Same(const v1::RoundId& a, const v1::RoundId& b) { return Compare(a, b) == 0; }

// A round number of 0 means "no round": the first is 1.
inline bool IsSet(const v1::RoundId& id) { return id.number() != 0; }
inline bool IsSet(const v1::Epoch& epoch) { return epoch.number() != 0; }

std::string ToString(const v1::Epoch& epoch);  // "2.9f3c"
std::string ToString(const v1::RoundId& id);   // "5@2.9f3c"
std::string ToString(v1::Phase phase);         // "running"

// "host:port", with brackets around an IPv6 address.
std::string ToString(const v1::Endpoint& endpoint);

}  // namespace muster
