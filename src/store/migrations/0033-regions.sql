-- Where the models of an Amazon Bedrock or Google Vertex AI account run, and the Google project that pays for them.
ALTER TABLE account ADD COLUMN region TEXT;
ALTER TABLE account ADD COLUMN project TEXT;
