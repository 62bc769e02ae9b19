// OpenSSL, without the configuration of the machine or image.
#pragma once

namespace muster {

// Call before any other function of OpenSSL: the first one loads the configuration, which may name providers that
// this static binary cannot load. Any thread; the calls after the first one do nothing.
void StartOpenSsl();

}  // namespace muster
