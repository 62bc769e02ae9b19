// The version of muster.
#pragma once

namespace muster::cli {

const char* Version();         // "0.1.0 (a1b2c3d)", for people
const char* ReleaseVersion();  // "0.1.0", compared between nodes
const char* Commit();          // "a1b2c3d"; empty: built outside a git checkout

}  // namespace muster::cli
