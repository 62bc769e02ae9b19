// What a change of the files that hold this node's credentials means: new credentials, or a line that says what is
// wrong with them. Pure.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/core/note.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/gate/validity.h"

namespace muster::rendezvous {

using FileTexts = std::vector<std::string>;  // one for each file

struct FilesRead {
  FileTexts texts;
  std::string warning = {};  // of a file that can be used, but should not be as it is; empty: none
};

struct MadeCredentials {
  std::shared_ptr<const Credentials> credentials;
  std::string digest;  // the same for the same credentials, whatever blanks are around them
  std::string shown;   // for people: "its token", never a secret
  // What lets others in: the tokens, or a digest of each authority.
  std::vector<std::string> accepted = {};
  bool are_certificates = false;
  bool authority_ends_first = false;
  Validity validity = {};
};

// How credentials come about.
struct CredentialSource {
  std::string name;  // "--token-file /run/token"
  // Blocks, perhaps for ever. Errors do not contain the name.
  std::function<absl::StatusOr<FilesRead>()> read;
  // FailedPrecondition: what is wrong with the texts, and what to do. now: nullopt: dates do not count. Pure.
  std::function<absl::StatusOr<MadeCredentials>(const FileTexts& texts, std::optional<absl::Time> now)> make;
};

// What to say of credentials at that age, and what to do; nullopt: nothing. name: that of their source.
std::optional<Note> NoteOnAge(const std::string& name, const Validity& validity, bool authority_ends_first,
                              Age age);

class CredentialNews {
 public:
  struct Outcome {
    std::shared_ptr<const Credentials> next;  // null: those in use stay
    FileTexts texts;                          // of which `next` was made
    std::vector<Note> notes;
  };

  // in_use: those that the process has begun with.
  CredentialNews(CredentialSource source, const MadeCredentials& in_use)
      : source_(std::move(source)),
        in_use_(in_use.digest),
        accepted_(in_use.accepted),
        validity_(in_use.validity),
        authority_ends_first_(in_use.authority_ends_first) {}

  const CredentialSource& source() const { return source_; }

  // What the files hold now, or why they cannot be read. The same as before has no outcome, so that each change is
  // logged once.
  Outcome OnRead(const absl::StatusOr<FilesRead>& read, absl::Time now);
  // Says once that those in use are about to expire, and once that they have.
  std::vector<Note> OnTime(absl::Time now);

 private:
  Outcome OnTexts(const FileTexts& texts, absl::Time now);
  Outcome Complain(const absl::Status& why);

  const CredentialSource source_;
  std::string in_use_;                  // digest
  std::vector<std::string> accepted_;   // by those in use
  Validity validity_;                   // of those in use
  bool authority_ends_first_;           // the same
  std::optional<std::string> warning_;  // of the newest reading; that of the first one was said at the start
  Age reported_age_ = Age::kGood;
  FileTexts newest_;         // good or bad
  absl::Status unreadable_;  // the newest reading failed, and why
  bool bad_ = false;         // the newest reading cannot be used
};

}  // namespace muster::rendezvous
