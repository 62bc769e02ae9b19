// Finds what a path leads to, beside what other users may have put there. What was found is opened through the
// descriptor of its folder, so that nothing of the path is looked up twice: who exchanges a part of it between the
// check and the open is not followed.
//
// Any thread. Blocks as long as the file system does.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/io/owned_fd.h"

namespace muster {

// Which links of a path are checked before they are followed.
enum class Links {
  kAtTheEnd,    // the last part, and those to which it leads; the folders before it are what was asked for
  kEverywhere,  // folders as well
};

// What a path leads to: a name in a folder. The name was no link when it was looked at.
struct Place {
  OwnedFd folder;
  std::string name;
  bool there = false;
  mode_t mode = 0;               // of what is there
  uid_t owner = 0;               // of what is there
  bool is_open_file = false;     // or it is a link of /proc, which leads to an open file and not to a name
  bool is_foreign_link = false;  // or it is a link that is not followed, since another user owns it
  const char* doing = "";        // the step that has failed, as a message begins: "looking at"
};

// Whether a file or link of this user may decide what is read or written: this process's own user and root.
bool IsTrusted(uid_t owner);

// Follows links up to the first one that another user owns. Links of folders may also belong to the owner of the
// folder in which they are, as under fs.protected_symlinks (proc(5)): whoever owns that folder decides anyway what
// the path means. Returns errno, with the step in place->doing; 0: no error.
int FindPlace(const std::string& path, Links checked, Place* place);

// Opens what was found, without waiting for a pipe. Invalid: see errno; ELOOP: it has become a link since.
OwnedFd OpenPlace(const Place& place, int flags, mode_t mode = 0);

}  // namespace muster
