foreach(name server session address)
  muster_test(wire_${name}_test SOURCES wire/${name}_test.cc DEPS muster_session)
endforeach()
muster_test(wire_agent_process_test THREADS SOURCES wire/agent_process_test.cc DEPS muster_agent)
muster_test(wire_port_holder_test THREADS SOURCES wire/port_holder_test.cc DEPS muster_agent)
muster_test(wire_end_host_test THREADS SOURCES wire/end_host_test.cc DEPS muster_agent)

# Debian's gRPC and Abseil are built without ThreadSanitizer, which then takes their locks for none and reports races
# that are not there. Their tests stay visible as disabled; everything else of ours runs under it.
if(MUSTER_SANITIZE MATCHES thread)
  set_tests_properties(wire_server_test wire_session_test PROPERTIES DISABLED TRUE)
endif()
# Without a descriptor left UBSan's check of virtual calls, which reads the object through a pipe of its own, takes every
# object for a broken one.
if(MUSTER_SANITIZE MATCHES undefined)
  set_tests_properties(wire_end_host_test PROPERTIES DISABLED TRUE)
endif()
