#include "agent/platform/discovery/sagemaker_variables.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/document.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "nlohmann/json.hpp"

namespace muster::discovery {
namespace {

using Json = nlohmann::json;

constexpr char kHyperparameters[] = "hyperparameters.json";
constexpr char kInputConfig[] = "inputdataconfig.json";
constexpr char kChannelFolder[] = "/opt/ml/input/data/";
constexpr char kAdvice[] = "correct it where the training job is made";
constexpr size_t kMaxWarnings = 8;
constexpr std::string_view kToolkitPrefixes[] = {"sagemaker_", "_tuning_"};

std::string Compact(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); }

// The file's one JSON object; empty where there is no such file.
absl::StatusOr<Json> ObjectOf(const FileReader& read_file, const std::string& path, const char* name,
                              size_t max_bytes, const char* expected) {
  const absl::StatusOr<std::string> text = read_file(path, max_bytes);
  if (absl::IsNotFound(text.status())) return Json::object();
  if (!text.ok()) {
    return ToStatus({name, "", Shown(AsStd(text.status().message())),
                     absl::StrCat("a file of at most ", max_bytes, " bytes"), kAdvice});
  }
  const std::string_view trimmed = AsStd(absl::StripAsciiWhitespace(*text));
  if (trimmed.empty()) return Json::object();
  return DocumentReader(name, kAdvice).Parse(trimmed, {max_bytes, kMaxInputsDepth}, expected);
}

// A value as a script sees it.
struct Value {
  Json json;
  std::string as_variable;
  std::string as_argument;
};

Value Decoded(const Json& raw) {
  Value value{raw, "", ""};
  std::string number;  // in its original notation: 1e-5 stays 1e-5
  if (raw.is_string()) {
    const std::string& text = raw.get_ref<const std::string&>();
    const absl::StatusOr<Json> inner = ParseBoundedJson(text, {kMaxHyperparametersBytes, kMaxInputsDepth});
    if (inner.ok()) value.json = *inner;
    if (inner.ok() && inner->is_number()) number = text;
  }
  const Json& json = value.json;
  if (json.is_string()) {
    value.as_variable = value.as_argument = json.get<std::string>();
  } else if (!json.is_null()) {
    value.as_variable = value.as_argument = number.empty() ? Compact(json) : number;
  }
  if (json.is_boolean()) value.as_argument = json.get<bool>() ? "True" : "False";
  return value;
}

class InputsReader {
 public:
  absl::Status ReadHyperparameters(const Json& object) {
    const DocumentReader document(kHyperparameters, kAdvice);
    Json all = Json::object();
    for (const auto& [name, raw] : object.items()) {
      const bool ours = std::none_of(std::begin(kToolkitPrefixes), std::end(kToolkitPrefixes),
                                     [&name = name](std::string_view prefix) { return name.starts_with(prefix); });
      if (!ours) continue;
      const Value value = Decoded(raw);
      if ((name + value.as_variable).find('\0') != std::string::npos) {
        return document.Wrong(name, value.as_variable, "a name and a value without a NUL");
      }
      Set("SM_HP_" + absl::AsciiStrToUpper(name), value.as_variable);
      inputs_.arguments.push_back((name.size() == 1 ? "-" : "--") + name);
      inputs_.arguments.push_back(value.as_argument);
      all[name] = value.json;
    }
    Set("SM_HPS", Compact(all));
    return absl::OkStatus();
  }

  void ReadChannels(const Json& object) {
    Json names = Json::array();
    for (const auto& [name, unused] : object.items()) {
      Set("SM_CHANNEL_" + absl::AsciiStrToUpper(name), kChannelFolder + name);
      names.push_back(name);
    }
    Set("SM_CHANNELS", Compact(names));
  }

  void SetFolders() {
    Set("SM_MODEL_DIR", "/opt/ml/model");
    Set("SM_INPUT_DIR", "/opt/ml/input");
    Set("SM_OUTPUT_DIR", "/opt/ml/output");
    Set("SM_OUTPUT_DATA_DIR", "/opt/ml/output/data");
  }

  TrainingInputs Take() {
    if (left_out_ > kMaxWarnings) {
      inputs_.warnings.push_back(absl::StrCat(left_out_ - kMaxWarnings, " more variables like these are not set"));
    }
    return std::move(inputs_);
  }

 private:
  void Set(const std::string& name, const std::string& value) {
    const bool is_name = name.find('=') == std::string::npos && name.find('\0') == std::string::npos;
    if (is_name && name.size() + value.size() <= kMaxVariableBytes && value.find('\0') == std::string::npos) {
      inputs_.variables[name] = value;
      return;
    }
    if (++left_out_ > kMaxWarnings) return;
    inputs_.warnings.push_back(absl::StrCat(Shown(name), " is not set for the workers: ",
                                            is_name ? "its value is too long" : "it is no variable's name"));
  }

  TrainingInputs inputs_;
  size_t left_out_ = 0;
};

}  // namespace

absl::StatusOr<TrainingInputs> ReadTrainingInputs(const FileReader& read_file, const std::string& folder) {
  InputsReader reader;
  reader.SetFolders();
  ASSIGN_OR_RETURN(const Json parameters,
                   ObjectOf(read_file, absl::StrCat(folder, kHyperparameters), kHyperparameters,
                            kMaxHyperparametersBytes, "a JSON object of hyperparameters"));
  RETURN_IF_ERROR(reader.ReadHyperparameters(parameters));
  ASSIGN_OR_RETURN(const Json channels, ObjectOf(read_file, absl::StrCat(folder, kInputConfig), kInputConfig,
                                                 kMaxInputConfigBytes, "a JSON object of input channels"));
  reader.ReadChannels(channels);
  return reader.Take();
}

}  // namespace muster::discovery
