// A codec behind which only what FrameGuard allows arrives.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/core/status_macros.h"
#include "rendezvous/gate/codec.h"
#include "rendezvous/gate/frame_guard.h"

namespace muster::rendezvous {

class Guarded : public Codec {
 public:
  // On the side of a server: see FrameGuard.
  Guarded(std::unique_ptr<Codec> inner, VisitorBytes* shared, uint64_t connection)
      : inner_(std::move(inner)), guard_(shared, connection) {}
  // On the side of a client.
  explicit Guarded(std::unique_ptr<Codec> inner) : inner_(std::move(inner)) {}

  absl::Status Start(std::string* out) override { return inner_->Start(out); }
  absl::Status FromPeer(BootTime now, std::string_view bytes, std::string* plain, std::string* out) override {
    const size_t before = plain->size();
    RETURN_IF_ERROR(inner_->FromPeer(now, bytes, plain, out));
    absl::Status allowed = guard_.Check(now, std::string_view(*plain).substr(before));
    if (!allowed.ok()) plain->resize(before);
    return allowed;
  }
  absl::Status ToPeer(std::string_view plain, std::string* out) override { return inner_->ToPeer(plain, out); }
  void Close(std::string* out) override { inner_->Close(out); }
  void Trust() override { guard_.Trust(); }
  std::string binding() const override { return inner_->binding(); }
  bool ready() const override { return inner_->ready(); }

 private:
  const std::unique_ptr<Codec> inner_;
  FrameGuard guard_;
};

}  // namespace muster::rendezvous
