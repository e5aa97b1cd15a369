/* The JSON Schema of one memory, shared by save_memory and save_memories. Macros, because schemas are joined from literals. The limits
 * are those of memory_input.h; a test holds them together. */
#ifndef CO_TOOLS_MEMORY_SCHEMA_H
#define CO_TOOLS_MEMORY_SCHEMA_H

#define CO_MEMORY_PROPERTIES                                                                                                       \
    "\"summary\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":500,\"description\":\"What happened, in one or two "           \
    "sentences.\"},"                                                                                                               \
    "\"content\":{\"type\":[\"string\",\"null\"],\"maxLength\":50000,\"description\":\"The whole text, where there is more to "    \
    "keep.\"},"                                                                                                                    \
    "\"entities\":{\"type\":[\"array\",\"null\"],\"maxItems\":64,\"description\":\"Who and what took part, by the names used "     \
    "before.\","                                                                                                                   \
    "\"items\":{\"type\":\"object\",\"required\":[\"name\"],\"additionalProperties\":false,\"properties\":{"                       \
    "\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":512},"                                                            \
    "\"type\":{\"type\":[\"string\",\"null\"],\"maxLength\":64,\"description\":\"person, system, file, ...\"}}}},"                 \
    "\"tags\":{\"type\":[\"array\",\"null\"],\"maxItems\":32,\"items\":{\"anyOf\":[{\"type\":\"string\",\"minLength\":1},"         \
    "{\"type\":\"object\",\"required\":[\"name\"],\"additionalProperties\":false,\"properties\":{"                                 \
    "\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":512},"                                                            \
    "\"kind\":{\"enum\":[\"contains\",\"refers\",null]}}}]}},"                                                                     \
    "\"timestamp\":{\"type\":[\"string\",\"null\"],\"description\":\"RFC 3339 date-time or ISO 8601 date; without an offset it "   \
    "is "                                                                                                                          \
    "UTC; now where absent.\"},"                                                                                                   \
    "\"thread\":{\"type\":[\"string\",\"null\"],\"maxLength\":200,\"description\":\"The sequence of events that this one belongs " \
    "to.\"},"                                                                                                                      \
    "\"order_index\":{\"type\":[\"integer\",\"null\"],\"description\":\"Place within the thread.\"},"                              \
    "\"prev_event_id\":{\"type\":[\"string\",\"null\"],\"description\":\"The event that this one follows.\"},"                     \
    "\"event_id\":{\"type\":[\"string\",\"null\"],\"pattern\":\"^[A-Za-z0-9._:-]{1,64}$\",\"description\":\"Made where "           \
    "absent.\"},"                                                                                                                  \
    "\"vector\":{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"number\"},\"description\":\"Of the org's dimension; the "     \
    "summary "                                                                                                                     \
    "is embedded where absent.\"},"                                                                                                \
    "\"replace\":{\"type\":[\"boolean\",\"null\"],\"default\":false,\"description\":\"Put this record wholly in the place of the " \
    "one "                                                                                                                         \
    "with the same event_id.\"},"                                                                                                  \
    "\"idempotency_key\":{\"type\":[\"string\",\"null\"],\"maxLength\":200,\"description\":\"Saving again with it answers as the " \
    "first "                                                                                                                       \
    "time did.\"},"                                                                                                                \
    "\"allow_truncation_marker\":{\"type\":[\"boolean\",\"null\"],\"default\":false},"                                             \
    "\"payload\":{\"type\":[\"object\",\"string\",\"null\"],\"description\":\"All of these arguments as one object, or as its "    \
    "JSON "                                                                                                                        \
    "text; stands alone.\"}"

#define CO_MEMORY_SCHEMA "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" CO_MEMORY_PROPERTIES "}}"

/* An answer's members when something went wrong. */
#define CO_ERROR_PROPERTIES                                                                              \
    "\"error\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\"},\"detail\":{\"type\":\"string\"}," \
    "\"hint\":{\"type\":\"string\"},\"outcome\":{\"const\":\"unknown\"}"

#define CO_SAVED_SCHEMA                                                                                             \
    "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{\"enum\":[\"ok\",\"error\"]},"      \
    "\"event_id\":{\"type\":\"string\"},\"created\":{\"type\":\"boolean\"},\"replaced\":{\"type\":\"boolean\"},"    \
    "\"entities\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"}," \
    "\"name\":{\"type\":\"string\"},\"type\":{\"type\":[\"string\",\"null\"]}}}},"                                  \
    "\"warnings\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}," CO_ERROR_PROPERTIES "}}"

#endif
