// Descriptors 0, 1 and 2 are open from the first moment of a muster process.
#pragma once

namespace muster {

// Opens /dev/null where 0, 1 or 2 is closed. A program that links this file has done so before its first
// constructor; PrepareProcess() calls it again, and so links it.
void OpenStandardDescriptors();

}  // namespace muster
