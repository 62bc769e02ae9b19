#include "rendezvous/gate/plain.h"

#include <cstddef>

#include "rendezvous/gate/frame_guard.h"

namespace muster::rendezvous {
namespace {

constexpr char kTlsHandshake = 0x16;  // type of a record, RFC 8446, section 5.1
constexpr char kTlsAlert = 0x15;
constexpr size_t kFrameTypeAt = 3;
constexpr char kSettings = 4;  // the type of a server's first frame, RFC 9113, section 3.4

class PlainServerCodec : public Codec {
 public:
  absl::Status FromPeer(BootTime /*now*/, std::string_view bytes, std::string* plain, std::string* out) override {
    if (ready_) {
      plain->append(bytes);
      return absl::OkStatus();
    }
    held_ += bytes;
    if (IsClientHello(held_)) {
      out->append(kAlert);
      return absl::UnauthenticatedError("it has a token or a certificate, and this job has neither");
    }
    const std::string_view begun = std::string_view(held_).substr(0, kPreface.size());
    if (begun != kPreface.substr(0, begun.size())) return absl::InvalidArgumentError("it does not speak HTTP/2");
    if (begun.size() < kPreface.size()) return absl::OkStatus();
    ready_ = true;
    plain->append(held_);
    held_.clear();
    return absl::OkStatus();
  }
  absl::Status ToPeer(std::string_view plain, std::string* out) override {
    out->append(plain);
    return absl::OkStatus();
  }
  bool ready() const override { return ready_; }

 private:
  std::string held_;
  bool ready_ = false;
};

class PlainClientCodec : public Codec {
 public:
  absl::Status FromPeer(BootTime /*now*/, std::string_view bytes, std::string* plain,
                        std::string* /*out*/) override {
    if (checked_) {
      plain->append(bytes);
      return absl::OkStatus();
    }
    held_ += bytes;
    if (held_.front() == kTlsAlert) return WhyAlert();
    if (held_.size() <= kFrameTypeAt) return absl::OkStatus();
    if (held_[kFrameTypeAt] != kSettings) return absl::InvalidArgumentError("it does not speak HTTP/2");
    checked_ = true;
    plain->append(held_);
    held_.clear();
    return absl::OkStatus();
  }
  absl::Status ToPeer(std::string_view plain, std::string* out) override {
    out->append(plain);
    return absl::OkStatus();
  }
  bool ready() const override { return true; }

 private:
  // Other servers of TLS answer with other alerts.
  absl::Status WhyAlert() const {
    if (held_.size() < kAlert.size()) return absl::OkStatus();
    if (held_ == kCertificateAlert) {
      return absl::UnauthenticatedError(
          "this job requires a certificate and this node has none: pass --tls-cert, --tls-key and --tls-ca");
    }
    if (held_ == kAlert) {
      return absl::UnauthenticatedError(
          "this job requires a token and this node sent none: set --token-file or MUSTER_TOKEN");
    }
    return absl::InvalidArgumentError("it speaks TLS, but not as muster");
  }

  std::string held_;
  bool checked_ = false;
};

}  // namespace

bool IsClientHello(std::string_view bytes) { return !bytes.empty() && bytes.front() == kTlsHandshake; }

std::unique_ptr<Codec> PlainServer() { return std::make_unique<PlainServerCodec>(); }
std::unique_ptr<Codec> PlainClient() { return std::make_unique<PlainClientCodec>(); }

}  // namespace muster::rendezvous
