#include "base/crypto/held.h"

#include <cstring>
#include <string>

#include "base/crypto/digest.h"

namespace muster {
namespace {

// A part of SHA-256, so that no node finds other details for the digest of a verdict.
uint64_t NonZeroHash(const std::string& bytes) {
  uint64_t hash = 0;
  const std::string digest = Sha256(bytes);
  std::memcpy(&hash, digest.data(), sizeof(hash));
  return hash == 0 ? 1 : hash;
}

}  // namespace

uint64_t DigestOfTexts(const v1::Failure& failure) {
  v1::Failure texts;
  texts.set_error_text(failure.error_text());
  texts.set_callstack(failure.callstack());
  texts.set_last_output(failure.last_output());
  texts.set_hint(failure.hint());
  *texts.mutable_others() = failure.others();
  texts.set_more_others(failure.more_others());
  return NonZeroHash(texts.SerializeAsString());
}

void LeaveOutTexts(v1::Failure* failure) {
  failure->clear_error_text();
  failure->clear_callstack();
  failure->clear_last_output();
  failure->clear_hint();
  failure->clear_others();
  failure->clear_more_others();
  failure->set_texts_left_out(true);
}

void MoveTexts(v1::Failure* from, v1::Failure* to) {
  to->mutable_error_text()->swap(*from->mutable_error_text());
  to->mutable_callstack()->swap(*from->mutable_callstack());
  to->mutable_last_output()->swap(*from->mutable_last_output());
  to->mutable_hint()->swap(*from->mutable_hint());
  to->mutable_others()->Swap(from->mutable_others());
  to->set_more_others(from->more_others());
  to->clear_texts_left_out();
}

uint64_t DigestOf(v1::Verdict verdict) {
  verdict.clear_digest();
  verdict.clear_brief();
  return NonZeroHash(verdict.SerializeAsString());
}

v1::Verdict Brief(const v1::Verdict& verdict) {
  v1::Verdict brief;
  brief.set_exit_code(verdict.exit_code());
  brief.set_origin(verdict.origin());
  brief.set_reason(verdict.reason());
  brief.set_digest(verdict.digest());
  brief.set_brief(true);
  return brief;
}

}  // namespace muster
