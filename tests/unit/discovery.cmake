# What a node reads about itself and its machine before it joins: platform, interpreter, accelerators; and the
# environment it gives to its workers.
muster_test(spec_address_test SOURCES spec_address_test.cc DEPS muster_discovery)
muster_test(bounded_json_test SOURCES bounded_json_test.cc DEPS muster_discovery)
muster_test(discover_test SOURCES discover_test.cc fixtures.cc DEPS muster_discovery)
muster_test(hostfile_test SOURCES hostfile_test.cc fixtures.cc DEPS muster_discovery)
muster_test(mask_secrets_test SOURCES mask_secrets_test.cc DEPS muster_discovery)
muster_test(vertex_test SOURCES vertex_test.cc fixtures.cc DEPS muster_discovery)
muster_test(worker_environment_test SOURCES worker_environment_test.cc DEPS muster_worker_environment)
muster_test(interpreter_test SOURCES interpreter_test.cc DEPS muster_interpreter)
muster_test(accelerators_test SOURCES accelerators_test.cc DEPS muster_accelerators)
muster_test(numa_binding_test SOURCES numa_binding_test.cc DEPS muster_accelerators)
muster_test(machine_probe_test SOURCES machine_probe_test.cc DEPS muster_accelerators)
muster_test(node_facts_test SOURCES node_facts_test.cc DEPS muster_accelerators)
