#include "cli/plan/debugger.h"

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/text/text.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

// Python's own `python -m pdb` runs a program again once it has ended, and exits with 0 when it is quit. A worker
// ends with its program, and one that is quit has failed: its peers wait for it, and its job is no success. The
// names are local, because pdb runs the program in this module, which it empties first. From Python 3.13 on pdb
// takes options that follow the program for its own, so it does not see the program's arguments.
constexpr char kPdb[] = R"(def main():
    import pdb, sys, traceback
    class Debugger(pdb.Pdb):
        def set_quit(self):
            quits.append(self)
            super().set_quit()
        def run(self, *args, **kwargs):
            sys.argv += arguments
            arguments.clear()
            sys.modules['__main__'].__dict__.setdefault('__spec__', None)
            try:
                super().run(*args, **kwargs)
                if not quits:
                    code[0] = 0
            except pdb.Restart:
                raise
            except SystemExit as end:
                code[0] = end.code
            except BaseException:
                traceback.print_exc()
                print('Uncaught exception: pdb shows where. q or c ends this worker')
                code[0] = 1
                self.interaction(None, sys.exc_info()[2])
            self._user_requested_quit = True
    code = ['pdb was quit: this worker has failed']
    quits = []  # also at a breakpoint(), which has a debugger of its own
    of_pdb = 3 if sys.argv[1] == '-m' else 2
    arguments = sys.argv[of_pdb:]
    del sys.argv[of_pdb:]
    pdb.Pdb = Debugger
    pdb.main()
    sys.exit(code[0])
main()
)";
constexpr char kDebugpyAddress[] = "127.0.0.1";  // whoever reaches the port controls the worker

}  // namespace

bool UsesTerminal(const Given<DebugChoice>& debug) { return debug && !debug->value.port; }

absl::Status CheckDebugOptions(const Settings& settings, bool no_python, bool of_local) {
  const Given<DebugChoice>& debug = settings.workers.debug;
  if (!debug) return absl::OkStatus();
  if (no_python) {
    return WrongValue(
        *debug,
        "expected a Python script or module that muster starts itself, without --no-python or muster "
        "host; a program of another kind must start its debugger itself");
  }
  if (debug->value.port) return absl::OkStatus();
  const int rank = debug->value.rank;
  const Given<StdinChoice>& reader = settings.workers.stdin_choice;
  if (reader && (reader->value.kind != StdinChoice::kRank || reader->value.rank != rank)) {
    return WrongValue(*reader,
                      absl::StrCat("pdb needs the keyboard for rank ", rank, " (", debug->source,
                                   "): leave one of them out, or give --debug ", rank, ":PORT for debugpy"));
  }
  const Given<StreamChoice>& redirects = settings.output.redirects;
  if (of_local && redirects && !redirects->value.IsNothing()) {
    return WrongValue(*redirects,
                      absl::StrCat("would hide pdb's prompt (", debug->source, "): give --tee in its place"));
  }
  return absl::OkStatus();
}

absl::Status CheckDebugKeyboard(const Settings& settings, bool keyboard) {
  const Given<DebugChoice>& debug = settings.workers.debug;
  if (keyboard || !UsesTerminal(debug)) return absl::OkStatus();
  return WrongValue(
      *debug, absl::StrCat("pdb needs a terminal as standard input and output, with muster in its foreground; for "
                           "debugpy give --debug ",
                           debug->value.rank, ":PORT"));
}

machine::ProgramCheck CheckDebuggedScript(const Settings& settings, const std::string& script,
                                          const machine::FileProbe& probe) {
  const Given<DebugChoice>& debug = settings.workers.debug;
  if (!UsesTerminal(debug) || IsOn(settings.program.module) || !probe(script).is_directory) return {};
  return {kExitUsage,
          absl::StrCat(debug->source, " ", debug->value.rank, ": pdb runs no directory: name ", OneLine(script),
                       "/__main__.py, or give --debug ", debug->value.rank, ":PORT for debugpy"),
          ""};
}

std::vector<std::string> DebuggerArguments(const DebugChoice& choice) {
  if (!choice.port) return {"-c", kPdb};
  // Frozen modules, which Python has had since 3.11, hide breakpoints; older ones ignore the option.
  return {"-X",
          "frozen_modules=off",
          "-m",
          "debugpy",
          "--listen",
          absl::StrCat(kDebugpyAddress, ":", *choice.port),
          "--wait-for-client"};
}

std::vector<std::string> FindDebugpy(const std::string& interpreter) {
  return {interpreter, "-c",
          absl::StrCat("import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('debugpy') else ",
                       kNoModule, ")")};
}

machine::ProgramCheck WithoutDebugpy(const Setting<DebugChoice>& debug, const std::string& interpreter) {
  return {kExitNotFound,
          absl::StrCat(ShownWithValue(debug.source, debug.text), ": ", OneLine(interpreter),
                       " has no module debugpy; install it: ", OneLine(interpreter), " -m pip install debugpy"),
          ""};
}

PlanLines PlanDebugger(const PlanInput& in, v1::NodeConfig* config) {
  PlanLines plan;
  const Given<DebugChoice>& debug = in.settings.workers.debug;
  if (!debug) return plan;
  plan.Add(kDebugOption, debug->text, debug->source);
  if (config->hang_timeout_ms() != 0) {
    plan.notes.push_back(absl::StrCat("--hang-timeout is off, because ", debug->source, " is given"));
  }
  config->set_hang_timeout_ms(0);
  plan.Add("hang-timeout", "off", debug->source);
  if (!config->coordinator_alone()) return plan;
  plan.warnings.push_back(absl::StrCat(debug->source,
                                       ": a restart would end the debugged worker: give muster coordinator ",
                                       "--max-restarts 0 --scale-up on-restart"));
  return plan;
}

}  // namespace muster::cli
