// Which muster this is.
#pragma once

namespace muster::cli {

const char* Version();         // "0.1.0 (a1b2c3d)", for people
const char* ReleaseVersion();  // "0.1.0", what two nodes compare

}  // namespace muster::cli
