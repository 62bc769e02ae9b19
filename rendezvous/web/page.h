// The page of a coordinator's web server: page.html, which asks for /status.json by itself.
#pragma once

namespace muster::rendezvous {

extern const char kPage[];

}  // namespace muster::rendezvous
