-- How many web searches are held and charged for a request that sets no limit itself. NULL: the default of the program.
ALTER TABLE key_group ADD COLUMN web_searches_max BIGINT;
